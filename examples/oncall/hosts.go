package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
)

// hosts are the upstreams, and service is how many processes call them.
var hosts = []string{slowHost, throttledHost, dyingHost}

const (
	slowHost      = "search.internal"
	throttledHost = "stock.internal"
	dyingHost     = "prices.internal"

	processes = 5
)

// connectTo returns a transport that knows the addresses of the upstreams. It
// stands in for DNS.
func connectTo(addresses map[string]string) *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(address)
			at, known := addresses[host]
			if !known {
				return nil, fmt.Errorf("no such host: %s", host)
			}
			return new(net.Dialer).DialContext(ctx, network, at)
		},
	}
}
