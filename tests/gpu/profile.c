/*
 * gpu-profile: `fermata profile` by itself, for a machine that has none of the libraries of the other commands.
 */
#include "fermata/command.h"

int main(int argc, char **argv)
{
    return command_profile(argc, argv);
}
