//go:build !windows && !plan9

package backoff

import "syscall"

// errnoEvidence sorts what the kernel says of a connection. Refused and
// unreachable mean that nothing was sent; after the others the server may have
// acted.
func errnoEvidence(e syscall.Errno) evidence {
	switch e {
	case syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return evidence{ClassNotSent, circumstantial}
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT, syscall.ENETDOWN, syscall.ENETRESET:
		return evidence{ClassRetryable, circumstantial}
	}
	if e.Temporary() || e.Timeout() {
		return evidence{ClassRetryable, circumstantial}
	}
	return evidence{}
}
