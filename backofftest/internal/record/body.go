package record

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync"
)

// A Body is what was done with a body. The zero Body is that of a message that
// was not seen.
type Body struct {
	Sum    string // SHA-256 of what was read, in hexadecimal
	Length int64  // bytes that were read
	Whole  bool   // it was read to its end
	Closed bool
}

var none = Body{Sum: hex.EncodeToString(sha256.New().Sum(nil)), Whole: true, Closed: true}

// watched is a body that is recorded.
type watched struct {
	io.ReadCloser
	total int64 // bytes, if it is above 0

	mu   sync.Mutex
	seen Body // without Sum
	hash hash.Hash
}

func watch(rc io.ReadCloser, total int64) *watched {
	return &watched{ReadCloser: rc, total: total, hash: sha256.New()}
}

// Read reads from the body, and notes what was read.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hash.Write(p[:n])
	w.seen.Length += int64(n)
	w.seen.Whole = w.seen.Whole || err == io.EOF || w.total > 0 && w.seen.Length == w.total
	return n, err
}

// Close closes the body, and notes it.
func (w *watched) Close() error {
	w.mu.Lock()
	w.seen.Closed = true
	w.mu.Unlock()
	return w.ReadCloser.Close()
}

// body returns what was seen so far.
func (w *watched) body() Body {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.seen
	b.Sum = hex.EncodeToString(w.hash.Sum(nil))
	return b
}

// A connection is the body of a response with the status 101: it can be written, too.
type connection struct {
	*watched
	io.Writer
}
