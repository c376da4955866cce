package evidence

import "syscall"

// ofErrno reads what Winsock says of a connection. Its sockets report the
// numbers below; syscall.ECONNREFUSED and the like are numbers that Go made up
// on Windows.
func ofErrno(e syscall.Errno) finding {
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
	switch e {
	case wsaECONNREFUSED, wsaEHOSTUNREACH, wsaENETUNREACH, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return circumstantial.says(NotSent)
	case wsaECONNRESET, wsaECONNABORTED, wsaETIMEDOUT, wsaENETDOWN, wsaENETRESET,
		syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT,
		syscall.ERROR_BROKEN_PIPE, syscall.ERROR_NETNAME_DELETED:
		return circumstantial.says(Retryable)
	}
	if e.Temporary() || e.Timeout() {
		return circumstantial.says(Retryable)
	}
	return 0
}
