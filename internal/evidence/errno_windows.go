package evidence

import "syscall"

// An Errno is an error of the operating system.
type Errno = syscall.Errno

// The sockets of Winsock report these numbers. syscall.ECONNREFUSED and the
// like are numbers that Go made up on Windows.
const (
	wsaENETDOWN     = 10050
	wsaENETUNREACH  = 10051
	wsaENETRESET    = 10052
	wsaECONNABORTED = 10053
	wsaECONNRESET   = 10054
	wsaETIMEDOUT    = 10060
	wsaECONNREFUSED = 10061
	wsaEHOSTUNREACH = 10065
)

// ConnectionErrorOf returns what an error of the system says of a connection.
func ConnectionErrorOf(e Errno) ConnectionError {
	switch e {
	case wsaECONNREFUSED, syscall.ECONNREFUSED:
		return Refused
	case wsaEHOSTUNREACH, wsaENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return Unreachable
	case wsaECONNABORTED, wsaECONNRESET, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE:
		return Reset
	case wsaENETDOWN, wsaENETRESET, wsaETIMEDOUT, syscall.ETIMEDOUT,
		syscall.ERROR_BROKEN_PIPE, syscall.ERROR_NETNAME_DELETED:
		return Lost
	}
	return NoConnectionError
}
