package fault

import "errors"

var errBroken = errors.New("connection reset")
