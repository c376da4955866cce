//go:build go1.27

package backoffhttp

// closeReadsRest tells that net/http reads the rest of a body that is closed,
// up to 256 KiB, for up to 50 ms, and so keeps the connection. The retry need
// not wait for it; one without a wait may open a connection meanwhile. To read
// here as well would hold up the retry for both times, because closing the body
// no longer ends a read at once.
const closeReadsRest = true
