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
	case "file does not exist", "no free file descriptors":
		return unready
	case "permission denied", "access permission denied", "address family not supported by protocol":
		return refusedHere
	}
	return NoConnectionError
}
