//go:build !plan9

package errortype

import "syscall"

// errno is what the system says.
type errno = syscall.Errno

// The sockets of Windows report these numbers, which no other system has.
const (
	wsaENETUNREACH  = 10051
	wsaECONNABORTED = 10053
	wsaECONNRESET   = 10054
	wsaECONNREFUSED = 10061
	wsaEHOSTUNREACH = 10065
)

// errnoName returns the name of what the system says of a connection, or "".
func errnoName(e errno) string {
	switch e {
	case syscall.ECONNREFUSED, wsaECONNREFUSED:
		return refused
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, wsaECONNRESET, wsaECONNABORTED:
		return reset
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, wsaEHOSTUNREACH, wsaENETUNREACH:
		return unreachable
	}
	return ""
}
