//go:build !windows && !plan9

package evidence

import "syscall"

// ofErrno reads what the kernel says of a connection. Refused and unreachable
// mean that nothing was sent. After the others the server may have acted.
func ofErrno(e syscall.Errno) finding {
	switch e {
	case syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return circumstantial.says(NotSent)
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT, syscall.ENETDOWN, syscall.ENETRESET:
		return circumstantial.says(Retryable)
	}
	if e.Temporary() || e.Timeout() {
		return circumstantial.says(Retryable)
	}
	return 0
}
