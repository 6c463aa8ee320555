/* The library OpenVINO: its one core, its types, its errors. */
#ifndef ENGINE_OPENVINO_LIBRARY_H
#define ENGINE_OPENVINO_LIBRARY_H

#include "base/status.h"
#include "onnx/dtype.h"

#include <openvino/c/openvino.h>

/* Makes the core, once in a process; any thread. */
status_t library_open(err_t *err);
ov_core_t *library_core(void); /* after library_open */

/* OK, or OpenVINO's last message in one line, behind `about` and a colon. `otherwise`: what a failure means that OpenVINO has no
 * code for. Errors of several threads at once may say each other's text, which OpenVINO keeps once in a process. */
status_t library_check(ov_status_e code, const char *about, status_t otherwise, err_t *err);

ov_element_type_e library_type(dtype_t dtype); /* DYNAMIC: there is none */
dtype_t library_dtype(ov_element_type_e type); /* DTYPE_NONE: no number that a tensor may hold here */

#endif
