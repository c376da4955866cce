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
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, hostDown:
		return Unreachable
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE:
		return Reset
	case syscall.ETIMEDOUT, syscall.ENETDOWN, syscall.ENETRESET:
		return Lost
	}
	return NoConnectionError
}

// whileDialing returns the class of an error of the system that is not about a
// connection, but of which there is none for it: a socket file that is not there
// yet, no port or no memory that is free, a firewall.
//
// Source: POSIX.1-2024, connect and socket; Linux, connect(2).
func whileDialing(e Errno) Class {
	switch e {
	case syscall.ENOENT, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.ENOBUFS, syscall.ENOMEM:
		return NotSent
	case syscall.EACCES, syscall.EPERM, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT, syscall.EPROTOTYPE:
		return Permanent
	}
	return Unknown
}
