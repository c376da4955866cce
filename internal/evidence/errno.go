//go:build !windows && !plan9

package evidence

import "syscall"

// errno is what the kernel says.
type errno = syscall.Errno

// ofErrno reads what the kernel says of a connection. Refused and unreachable
// mean that nothing was sent. After the others the server may have acted.
func ofErrno(e errno) finding {
	switch e {
	case syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return weak.says(NotSent)
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT, syscall.ENETDOWN, syscall.ENETRESET:
		return weak.says(Retryable)
	}
	if e.Temporary() || e.Timeout() {
		return weak.says(Retryable)
	}
	return 0
}

func refused(e errno) bool { return e == syscall.ECONNREFUSED }
