// Package sameorigin keeps the pages of other web sites from what a handler of
// this module shows.
package sameorigin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Admits reports whether a request may be answered. If not, it has answered. It
// sets the headers by which a browser gives a response to pages of the same
// origin only.
//
// A page of another site can get the origin of a server on a loopback address by
// a name that it rebinds to that address. So such a server is asked for by a name
// of its own: localhost, or its address.
func Admits(w http.ResponseWriter, r *http.Request) bool {
	header := w.Header()
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if isRebound(r) {
		http.Error(w, "refused: the host "+strconv.Quote(r.Host[:min(len(r.Host), 64)])+
			" is not a name of this machine: ask for localhost; a proxy must set the Host to that", http.StatusForbidden)
		return false
	}
	return true
}

// isRebound reports whether a request came to a loopback address by a name that
// somebody may have rebound. Nobody owns a name below internal: Docker calls the
// machine host.docker.internal. No browser sends an empty name.
func isRebound(r *http.Request) bool {
	to, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !to.IP.IsLoopback() {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix((&url.URL{Host: r.Host}).Hostname(), "."))
	_, err := netip.ParseAddr(host)
	return err != nil && host != "" && host != "localhost" && !strings.HasSuffix(host, ".localhost") && !strings.HasSuffix(host, ".internal")
}
