package backoffhttp

import (
	"errors"
	"slices"
	"strings"
)

// unfit are the beginnings of errors by which net/http refuses a request that cannot be
// sent. net/http identifies them by their text only. Those of HTTP/2 may have the prefix
// of golang.org/x/net.
var unfit = [...]string{
	"net/http: invalid ", // header, trailer or method
	"net/http: can't write control character in Request.URL",
	"http: nil Request.",
	"http: no Host in request URL",
	"http: invalid Host header",
	"http: Request.Write on Request with no Host or URL set",
	"http: Request.ContentLength=",
	"http: ContentLength=",
	"idna: ",
	"unsupported protocol scheme ",
	"unsupported scheme",
	"invalid Trailer key ",
	"invalid HTTP ", // header or trailer
	"invalid Host header",
	"invalid request :path ",
	"invalid :protocol header ",
	"invalid Upgrade request header: ",
	"invalid Transfer-Encoding request header: ",
	"invalid Connection request header: ",
	"request header list larger than peer's advertised limit",
	"request body larger than specified content length",
}

// isUnfit reports whether net/http refused the request, so that its error says nothing of
// the host.
func isUnfit(err error) bool {
	for left := 3; err != nil && left > 0; left-- { // net/http wraps them once
		text := strings.TrimPrefix(err.Error(), "http2: ")
		if slices.ContainsFunc(unfit[:], func(known string) bool { return strings.HasPrefix(text, known) }) {
			return true
		}
		err = errors.Unwrap(err)
	}
	return false
}
