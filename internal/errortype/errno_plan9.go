package errortype

import "syscall"

// errno is what the system says: Plan 9 has texts instead of numbers.
type errno = syscall.ErrorString

// errnoName returns the name of what the system says of a connection, or "".
func errnoName(e errno) string {
	switch e {
	case "connection refused":
		return refused
	case "i/o on hungup channel":
		return reset
	}
	return ""
}
