package idempotency

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// recorder holds a response back until it is kept. If the handler flushes, or
// writes more than may be kept, the recorder streams the response instead, and
// keeps what fits.
type recorder struct {
	w      http.ResponseWriter
	outer  http.Header // w's header when the handler began
	header http.Header // the handler's header
	passed http.Header // the handler's header as w has it
	final  http.Header // the handler's header at the end of WriteHeader
	left   int64       // bytes that may still be kept; negative: no limit

	method    string // of the request
	length    int64  // the Content-Length of the response; negative: none
	written   int64  // by the handler, with what was refused
	record    Record
	streaming bool // w has the status, and gets the body as it comes
}

// newRecorder returns a recorder that keeps up to maxSize bytes of the response
// to a request with this method.
func newRecorder(w http.ResponseWriter, method string, maxSize int64) *recorder {
	outer := w.Header().Clone()
	return &recorder{w: w, outer: outer, header: w.Header().Clone(), passed: outer, left: maxSize, method: method, length: -1}
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999: // as net/http does
		panic(fmt.Sprintf("idempotency: invalid WriteHeader code %d", status))
	case r.record.Status != 0:
		return
	case status < 200 && status != http.StatusSwitchingProtocols:
		r.passHeader(r.header)
		r.w.WriteHeader(status)
		r.passHeader(r.outer) // the handler may yet panic
		return
	}
	markFinal(r.header, status)
	// As in net/http, changes that the handler makes to its header after
	// WriteHeader have no effect.
	r.final = r.header.Clone()
	if n, err := strconv.ParseUint(r.header.Get("Content-Length"), 10, 63); err == nil { // or net/http ignores it
		r.length = int64(n)
	}
	r.record = Record{Status: status, Header: r.ownFields()}
	r.account(r.record.size())
}

// passHeader makes the changes to w's header that the handler made to its own.
// What was set around the handler meanwhile stays.
func (r *recorder) passHeader(header http.Header) {
	w := r.w.Header()
	for name := range r.passed {
		if _, ok := header[name]; !ok {
			setField(w, name, without(w[name], r.passed[name]))
		}
	}
	for name, values := range header {
		if !slices.Equal(values, r.passed[name]) {
			setField(w, name, slices.Concat(values, without(w[name], r.passed[name])))
		}
	}
	r.passed = header.Clone()
}

// setField sets a field to values, and removes it if there are none.
func setField(header http.Header, name string, values []string) {
	if len(values) == 0 {
		delete(header, name)
		return
	}
	header[name] = values
}

// ownFields returns the values that the handler set, without those that were
// set around it, and without what is not repeated.
func (r *recorder) ownFields() http.Header {
	own := make(http.Header)
	for name, values := range repeatable(r.header) {
		setField(own, name, without(values, r.outer[name]))
	}
	return own
}

// without returns the values that are not among others. A value that is there
// twice is taken out as often as others has it.
func without(values, others []string) []string {
	rest, out := slices.Clone(others), make([]string, 0, len(values))
	for _, v := range values {
		if i := slices.Index(rest, v); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			continue
		}
		out = append(out, v)
	}
	return out
}

// repeatable returns the fields that are also true of a second response: not
// those of ofOneMessage, those that Connection names, or trailers.
func repeatable(header http.Header) http.Header {
	var named []string
	for name, values := range header {
		if name = http.CanonicalHeaderKey(name); name == "Connection" || name == "Trailer" {
			named = append(named, values...)
		}
	}
	kept := maps.Clone(header)
	maps.DeleteFunc(kept, func(name string, _ []string) bool {
		return ofOneMessage[http.CanonicalHeaderKey(name)] || strings.HasPrefix(name, http.TrailerPrefix) || listed(named, name)
	})
	return kept
}

// ofOneMessage are the fields that say something of one message only: of its
// connection (RFC 9110, 7.6.1), of its moment (RFC 9110, 6.6.1; RFC 9111, 5.1;
// limits of a rate), or of its exchange (nonces: RFC 7615, 3 and RFC 9449, 8.2;
// what caches and proxies did: RFC 9211 and RFC 9209; traces).
var ofOneMessage = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Date": true, "Age": true, "Ratelimit": true, "X-Ratelimit-Remaining": true, "X-Ratelimit-Reset": true,
	"Authentication-Info": true, "Proxy-Authentication-Info": true, "Dpop-Nonce": true, "Cache-Status": true, "Proxy-Status": true,
	"Traceparent": true, "Tracestate": true, "Traceresponse": true, "Server-Timing": true,
}

// account takes n bytes from those that may be kept. If there are not enough
// left, it gives the response up, and the recorder streams from here on.
func (r *recorder) account(n int64) {
	switch {
	case r.left < 0 || r.record.Omitted:
	case n <= r.left:
		r.left -= n
	default:
		r.send()
		r.record = r.record.omit()
	}
}

// Write implements [http.ResponseWriter]. It refuses what net/http refuses.
func (r *recorder) Write(p []byte) (int, error) {
	r.ensureStatus()
	if !r.hasBody() {
		return 0, http.ErrBodyNotAllowed
	}
	if r.written += int64(len(p)); r.length >= 0 && r.written > r.length {
		return 0, http.ErrContentLength
	}
	r.account(int64(len(p)))
	if !r.record.Omitted {
		r.record.Body = append(r.record.Body, p...)
	}
	if !r.streaming {
		return len(p), nil
	}
	n, err := r.w.Write(p)
	if r.isHidden(err) {
		return len(p), nil
	}
	return n, err
}

// hasBody reports whether a response with the status may have a body.
func (r *recorder) hasBody() bool {
	s := r.record.Status
	return s >= 200 && s != http.StatusNoContent && s != http.StatusNotModified
}

// isHidden reports whether the handler does not hear of an error of w. As long
// as the response is kept, a client that is gone is no reason to end it: the
// client comes back for the whole.
func (r *recorder) isHidden(err error) bool {
	return !r.record.Omitted && !errors.Is(err, http.ErrNotSupported)
}

// ensureStatus sets the status to 200 if the handler has set none.
func (r *recorder) ensureStatus() {
	if r.record.Status == 0 {
		r.WriteHeader(http.StatusOK)
	}
}

// Flush implements [http.Flusher].
func (r *recorder) Flush() { r.FlushError() }

// FlushError is Flush for [http.ResponseController].
func (r *recorder) FlushError() error {
	r.ensureStatus()
	r.send()
	if err := http.NewResponseController(r.w).Flush(); !r.isHidden(err) {
		return err
	}
	return nil
}

// SetReadDeadline is for [http.ResponseController].
func (r *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetReadDeadline(t)
}

// SetWriteDeadline is for [http.ResponseController].
func (r *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetWriteDeadline(t)
}

// finish returns the record of the whole response. A response that is shorter
// than its Content-Length is not whole.
func (r *recorder) finish() Record {
	r.ensureStatus()
	if r.length >= 0 && int64(len(r.record.Body)) != r.length && r.hasBody() && r.method != http.MethodHead {
		return r.record.omit()
	}
	return r.record
}

// end sends what is left: all that was held back, and the trailers. net/http
// wants to know trailers that were not declared before it sends the header.
func (r *recorder) end() {
	if r.streaming {
		r.passTrailers()
		return
	}
	r.passHeader(r.final)
	r.passTrailers()
	r.begin()
}

// passTrailers copies the handler's trailers to w.
func (r *recorder) passTrailers() {
	declared := r.w.Header()["Trailer"]
	for name, values := range r.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || listed(declared, name) {
			r.w.Header()[name] = slices.Clone(values)
		}
	}
}

// listed reports whether values, of Trailer or Connection, list the field name.
func listed(values []string, name string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(values, ","), ","), func(field string) bool {
		return strings.EqualFold(strings.TrimSpace(field), name)
	})
}

// send sends what was held back, and the rest as it comes.
func (r *recorder) send() {
	if !r.streaming {
		r.passHeader(r.final)
		r.begin()
	}
}

// begin sends the status, and the part of the body that was held back.
func (r *recorder) begin() {
	r.streaming = true
	r.w.WriteHeader(r.record.Status)
	if len(r.record.Body) > 0 {
		r.w.Write(r.record.Body)
	}
}
