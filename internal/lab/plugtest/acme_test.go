//go:build nightly

package plugtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/acme"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// An acmeServer takes each nonce once (RFC 8555, 6.5). Requests for an account
// end in turn with the given statuses, and then succeed.
type acmeServer struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	after    bool // the nonce is used up before a failure
	nonces   map[string]bool
	posts    int
	badNonce int
}

func (s *acmeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nonce := fmt.Sprint("nonce-", len(s.nonces))
	s.nonces[nonce] = true
	w.Header().Set("Replay-Nonce", nonce)
	if r.URL.Path == "/directory" {
		fmt.Fprintf(w, `{"newNonce":"%[1]s/nonce","newAccount":"%[1]s/account","newOrder":"%[1]s/order"}`, s.URL)
		return
	}
	if r.Method == http.MethodHead {
		return
	}
	s.posts++
	failure := 0
	if len(s.statuses) > 0 {
		failure, s.statuses = s.statuses[0], s.statuses[1:]
	}
	if failure != 0 && !s.after {
		w.WriteHeader(failure)
		return
	}
	used := nonceOf(r)
	if !s.nonces[used] {
		s.badNonce++
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"type":"urn:ietf:params:acme:error:badNonce"}`)
		return
	}
	s.nonces[used] = false
	if failure != 0 {
		w.WriteHeader(failure)
		return
	}
	w.Header().Set("Location", s.URL+"/account/1")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"status":"valid"}`)
}

// nonceOf returns the nonce of a signed request.
func nonceOf(r *http.Request) string {
	var signed struct {
		Protected string `json:"protected"`
	}
	var header struct {
		Nonce string `json:"nonce"`
	}
	if json.NewDecoder(r.Body).Decode(&signed) == nil {
		text, _ := base64.RawURLEncoding.DecodeString(signed.Protected)
		json.Unmarshal(text, &header)
	}
	return header.Nonce
}

// The POSTs of ACME may be sent twice: the server takes a nonce once. If it took
// the nonce of an attempt that failed, the client signs the request again.
func TestACMEOverAWrappedClient(t *testing.T) {
	for _, c := range []struct {
		safe     backoff.Idempotency
		statuses []int
		after    bool
		posts    int
		badNonce int
	}{
		{backoff.Idempotent, []int{503, 500}, false, 3, 0},
		{backoff.Idempotent, []int{503}, true, 3, 1},
		{nil, nil, false, 1, 0},
	} {
		s := &acmeServer{statuses: c.statuses, after: c.after, nonces: map[string]bool{}}
		s.Server = httptest.NewServer(s)
		defer s.Close()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		p := steps
		p.Idempotency = c.safe
		existing := own()
		existing.Timeout = 5 * time.Second
		client := &acme.Client{
			Key: key, DirectoryURL: s.URL + "/directory", HTTPClient: backoffhttp.WrapClient(existing, p),
			RetryBackoff: func(_ int, _ *http.Request, resp *http.Response) time.Duration {
				if resp.StatusCode == http.StatusBadRequest {
					return time.Millisecond // a nonce was used up: sign again
				}
				return -1 // the policy has given up
			},
		}
		_, err = client.Register(t.Context(), &acme.Account{}, acme.AcceptTOS)
		require.NoError(t, err)
		require.Equal(t, c.posts, s.posts)
		require.Equal(t, c.badNonce, s.badNonce)
	}
}

func TestACMEWithoutAWordDoesNotRepeatAPOST(t *testing.T) {
	s := &acmeServer{statuses: []int{503}, nonces: map[string]bool{}}
	s.Server = httptest.NewServer(s)
	defer s.Close()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	client := &acme.Client{
		Key: key, DirectoryURL: s.URL + "/directory", HTTPClient: backoffhttp.WrapClient(own(), steps),
		RetryBackoff: func(int, *http.Request, *http.Response) time.Duration { return -1 },
	}
	_, err = client.Register(t.Context(), &acme.Account{}, acme.AcceptTOS)
	require.Error(t, err)
	require.Equal(t, 1, s.posts)
}
