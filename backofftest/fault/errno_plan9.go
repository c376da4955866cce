package fault

import "errors"

var errReset = errors.New("connection reset")
