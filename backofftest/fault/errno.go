//go:build !plan9

package fault

import (
	"net"
	"syscall"
)

// errBroken is the error of a connection that was reset.
var errBroken error = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
