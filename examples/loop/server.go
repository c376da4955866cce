package main

import (
	"bufio"
	"io"
	"net"
)

// serve treats the first connection by the first of the behaviours, and so on.
func serve(listener net.Listener, behaviours ...func(net.Conn)) {
	for _, behave := range behaviours {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go behave(conn)
	}
}

// hang says nothing until the client leaves.
func hang(conn net.Conn) {
	defer conn.Close()
	io.Copy(io.Discard, conn)
}

// reset ends the connection by RST.
func reset(conn net.Conn) {
	bufio.NewReader(conn).ReadString('\n')
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

func answer(conn net.Conn) {
	defer conn.Close()
	bufio.NewReader(conn).ReadString('\n')
	io.WriteString(conn, "fine, thank you\n")
}
