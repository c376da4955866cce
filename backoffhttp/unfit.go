package backoffhttp

import (
	"strings"

	"github.com/gobackoff/backoff/internal/errtree"
)

// unfit are the beginnings of errors by which net/http refuses a request that cannot be
// sent. net/http identifies them by their text only. Those of HTTP/2 may have the prefix
// of golang.org/x/net.
var unfit = [...]string{
	"net/http: invalid header ",
	"net/http: invalid trailer ",
	"net/http: invalid method ",
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
	"invalid HTTP header ",
	"invalid HTTP trailer ",
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
	return errtree.Find(err, func(err error) bool {
		text := err.Error()
		for _, known := range unfit {
			if strings.HasPrefix(text, known) || strings.HasPrefix(strings.TrimPrefix(text, "http2: "), known) {
				return true
			}
		}
		return false
	})
}
