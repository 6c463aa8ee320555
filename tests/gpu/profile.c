/*
 * gpu-profile: `fermata profile` by itself, for a machine that has none of the libraries of the other commands.
 */
#include "fermata/command.h"

extern const command_t command_profile;

int main(int argc, char **argv)
{
    return command_profile.run(argc, argv);
}
