/* What is said of a tensor that the model has not. */
#ifndef OIP_UNKNOWN_H
#define OIP_UNKNOWN_H

#include "oip/model_spec.h"

/* INVALID_ARGUMENT: "unknown input 'imag' for model 'digits', which has 'image'", the nearest name first, as many as fit. */
status_t oip_unknown_input(const oip_model_spec_t *spec, const char *name, err_t *err);
status_t oip_unknown_output(const oip_model_spec_t *spec, const char *name, err_t *err);

#endif
