package evidence

import "syscall"

// An Errno is an error of the operating system: Plan 9 has texts instead of
// numbers.
type Errno = syscall.ErrorString

// ConnectionErrorOf returns what an error of the system says of a connection.
func ConnectionErrorOf(e Errno) ConnectionError {
	switch e {
	case "connection refused":
		return Refused
	case "i/o on hungup channel":
		return Reset
	}
	return NoConnectionError
}

// whileDialing returns the class of an error of the system that is not about a
// connection, but of which there is none for it.
func whileDialing(e Errno) Class {
	switch e {
	case "file does not exist", "no free file descriptors":
		return NotSent
	case "permission denied", "access permission denied", "address family not supported by protocol":
		return Permanent
	}
	return Unknown
}
