//go:build !windows && !plan9

package evidence

import "syscall"

// An Errno is an error of the operating system.
type Errno = syscall.Errno

// ConnectionErrorOf returns what an error of the system says of a connection.
func ConnectionErrorOf(e Errno) ConnectionError {
	switch e {
	case syscall.ECONNREFUSED:
		return Refused
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return Unreachable
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE:
		return Reset
	case syscall.ETIMEDOUT, syscall.ENETDOWN, syscall.ENETRESET:
		return Lost
	}
	return NoConnectionError
}
