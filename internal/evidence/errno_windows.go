package evidence

import "syscall"

// An Errno is an error of the operating system.
type Errno = syscall.Errno

// The sockets of Winsock report these numbers. syscall.ECONNREFUSED and the
// like are numbers that Go made up on Windows.
//
// Source: Microsoft, "Windows Sockets Error Codes".
const (
	wsaEACCES          = 10013
	wsaEMFILE          = 10024
	wsaEPROTOTYPE      = 10041
	wsaEPROTONOSUPPORT = 10043
	wsaEAFNOSUPPORT    = 10047
	wsaEADDRINUSE      = 10048
	wsaEADDRNOTAVAIL   = 10049
	wsaENETDOWN        = 10050
	wsaENETUNREACH     = 10051
	wsaENETRESET       = 10052
	wsaECONNABORTED    = 10053
	wsaECONNRESET      = 10054
	wsaENOBUFS         = 10055
	wsaETIMEDOUT       = 10060
	wsaECONNREFUSED    = 10061
	wsaEHOSTDOWN       = 10064
	wsaEHOSTUNREACH    = 10065
)

// ConnectionErrorOf returns what an error of the system says of a connection.
func ConnectionErrorOf(e Errno) ConnectionError {
	switch e {
	case wsaECONNREFUSED, syscall.ECONNREFUSED:
		return Refused
	case wsaEHOSTUNREACH, wsaENETUNREACH, wsaEHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN:
		return Unreachable
	case wsaECONNABORTED, wsaECONNRESET, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE:
		return Reset
	case wsaENETDOWN, wsaENETRESET, wsaETIMEDOUT, syscall.ETIMEDOUT,
		syscall.ERROR_BROKEN_PIPE, syscall.ERROR_NETNAME_DELETED:
		return Lost
	}
	return NoConnectionError
}

// whileDialing returns the class of an error of the system that is not about a
// connection, but of which there is none for it: a socket file that is not there
// yet, no port or no memory that is free, a firewall.
func whileDialing(e Errno) Class {
	switch e {
	case wsaEADDRNOTAVAIL, wsaEADDRINUSE, wsaENOBUFS, wsaEMFILE,
		syscall.ENOENT, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.ENOBUFS, syscall.ENOMEM:
		return NotSent
	case wsaEACCES, wsaEAFNOSUPPORT, wsaEPROTONOSUPPORT, wsaEPROTOTYPE,
		syscall.EACCES, syscall.EPERM, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT, syscall.EPROTOTYPE:
		return Permanent
	}
	return Unknown
}
