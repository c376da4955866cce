package backoffhttp

import (
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"strconv"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/idemkey"
)

// errKeyUsed refuses a request whose key belongs to another one of the same attempt. Its
// server would take it for that one, and answer what it answered then.
var errKeyUsed = backoff.Permanent(errors.New("backoffhttp: another request to this address has succeeded under the idempotency key of the context: " +
	"give each request a context with its own (backoff.WithIdempotencyKey)"))

// usedKey is the key of a context under which a request is sent.
type usedKey struct {
	key     *idemkey.Key // nil if the request does not carry the key of its context
	request uint64       // a hash
}

// fits reports whether no other request has succeeded under the key.
func (u *usedKey) fits() bool { return u.key == nil || u.key.Fits(u.request) }

// note notes whether the request has succeeded.
func (u *usedKey) note(resp *http.Response) {
	if u.key != nil && resp.StatusCode/100 == 2 {
		u.key.Use(u.request)
	}
}

var seed = maphash.MakeSeed()

// hashOf returns a hash of where a request is sent, and one of up to 64 KiB of its body. It
// is not 0.
func hashOf(req *http.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(req.Method + " " + req.URL.String())
	to := h.Sum64() &^ (1<<32 - 1)
	h.WriteString(strconv.FormatInt(req.ContentLength, 10) + " ")
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			io.CopyN(&h, body, 64<<10)
			body.Close()
		}
	}
	return to | h.Sum64()>>32 | 1
}
