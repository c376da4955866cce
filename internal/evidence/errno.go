//go:build !plan9

package evidence

import "syscall"

// An Errno is an error of the operating system.
type Errno = syscall.Errno

// ConnectionErrorOf returns what an error of the system says of a connection.
//
// Source: POSIX.1-2024, connect and socket; Linux, connect(2).
func ConnectionErrorOf(e Errno) ConnectionError {
	switch posix(e) {
	case syscall.ECONNREFUSED:
		return Refused
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, hostDown:
		return Unreachable
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE:
		return Reset
	case syscall.ETIMEDOUT, syscall.ENETDOWN, syscall.ENETRESET:
		return Lost
	case syscall.ENOENT, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.ENOBUFS, syscall.ENOMEM:
		return unready
	case syscall.EACCES, syscall.EPERM, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT, syscall.EPROTOTYPE:
		return refusedHere
	}
	return NoConnectionError
}
