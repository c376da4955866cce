package main

import (
	"bufio"
	"io"
	"net"
)

// serve handles the first connection with the first handler, and so on.
func serve(listener net.Listener, handlers ...func(net.Conn)) {
	for _, handle := range handlers {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go handle(conn)
	}
}

// hang sends nothing until the client closes the connection.
func hang(conn net.Conn) {
	defer conn.Close()
	io.Copy(io.Discard, conn)
}

// reset resets the connection (RST).
func reset(conn net.Conn) {
	bufio.NewReader(conn).ReadString('\n')
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// answer answers a question.
func answer(conn net.Conn) {
	defer conn.Close()
	bufio.NewReader(conn).ReadString('\n')
	io.WriteString(conn, "fine, thank you\n")
}
