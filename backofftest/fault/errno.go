//go:build !plan9

package fault

import (
	"os"
	"syscall"
)

var errReset = os.NewSyscallError("read", syscall.ECONNRESET)
