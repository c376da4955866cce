package evidence

import "syscall"

// winsock has the numbers that the sockets of Windows report, and those that Go made
// up on Windows for the same errors.
//
// Source: Microsoft, "Windows Sockets Error Codes" and "System Error Codes".
var winsock = map[Errno]Errno{
	10013: syscall.EACCES,
	10024: syscall.ENOBUFS, // WSAEMFILE
	10041: syscall.EPROTOTYPE,
	10043: syscall.EPROTONOSUPPORT,
	10047: syscall.EAFNOSUPPORT,
	10048: syscall.EADDRINUSE,
	10049: syscall.EADDRNOTAVAIL,
	10050: syscall.ENETDOWN,
	10051: syscall.ENETUNREACH,
	10052: syscall.ENETRESET,
	10053: syscall.ECONNABORTED,
	10054: syscall.ECONNRESET,
	10055: syscall.ENOBUFS,
	10060: syscall.ETIMEDOUT,
	10061: syscall.ECONNREFUSED,
	10064: syscall.EHOSTDOWN,
	10065: syscall.EHOSTUNREACH,

	syscall.ERROR_BROKEN_PIPE:     syscall.ETIMEDOUT,
	syscall.ERROR_NETNAME_DELETED: syscall.ETIMEDOUT,
}

// posix returns the number by which ConnectionErrorOf knows an error.
func posix(e Errno) Errno {
	if known, ok := winsock[e]; ok {
		return known
	}
	return e
}
