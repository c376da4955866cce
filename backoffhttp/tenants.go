package backoffhttp

import (
	"encoding/binary"
	"hash/maphash"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/registry"
)

// unknown stands for all credentials that are new, or change with each request, or
// for which there is no room. They share a service, so that none of them slows down
// the first credential of a host.
const unknown = 1

// credentialHeaders are the headers that tell for whom a request is made. Each
// costs a look at every request.
var credentialHeaders = [...]string{"Authorization", "X-Api-Key", "Api-Key"}

// tenants is what a Transport knows of the credentials that are used with its hosts.
type tenants struct {
	seed     maphash.Seed // of this Transport, so that hashes cannot be predicted
	clients  registry.Registry[*clients]
	accounts registry.Registry[*account]
	seen     atomic.Pointer[seen] // nil until a host has a second credential
	count    *atomic.Int64        // of the accounts so far
}

// clients is what is known of the credentials of a host.
type clients struct {
	salt     uint64        // of the host, for hashes that are kept for all hosts together
	first    atomic.Uint64 // hash of the first credential, which has the guards of the host
	several  atomic.Bool   // another one lasts
	accounts atomic.Int64  // so far
}

// An account is a credential with a number, which has a service of its own.
type account struct {
	key    string // of the registry
	naming sync.Once
	name   string      // such as "2"
	made   time.Time   // when it got the name
	taken  atomic.Bool // it has a name
	lasts  atomic.Bool // it was used again after the time lasting
}

// A credential lasts if it is used again after this time. One that is made for
// each request, with the time in seconds, may come twice within a second.
const lasting = 2 * time.Second

// earlyAccounts is how many credentials of a host have an account at their second
// request. All others must last.
const earlyAccounts = 8

// maxAccounts bounds the accounts of a Transport to twice this: a registry keeps
// as many besides that it must not forget.
const maxAccounts = 256

// seen holds the hashes of credentials that came once, each in one of a few places,
// until another one takes the place. The second in which a hash came stands for its
// lower bits.
type seen [1024][4]atomic.Uint64

const secondsOfSeen = 1<<20 - 1

// sharedCount is the count of Transports whose services others may use, too: no two
// credentials get the same number.
var sharedCount atomic.Int64

// open prepares the tenants at first use of a Transport whose hosts have services.
func (t *tenants) open() {
	t.count = new(atomic.Int64)
	t.clients.New = func(host string, _ bool) *clients { return &clients{salt: maphash.String(t.seed, host)} }
	t.clients.SetLimits(0, 0)
	t.accounts.New = func(key string, _ bool) *account { return &account{key: key} }
	t.accounts.Claim = func(a *account) registry.Claim {
		if a.taken.Load() {
			return registry.InUse
		}
		return registry.None
	}
	t.accounts.SetLimits(maxAccounts, 0)
}

// credential returns the hash of the credential in a header, or 0.
func (t *tenants) credential(h http.Header) (sum uint64) {
	for i, name := range credentialHeaders {
		if values := h[name]; len(values) > 0 && values[0] != "" {
			sum += maphash.String(t.seed, values[0]) * uint64(2*i+1)
		}
	}
	return sum
}

// account returns the account of a credential that is used with a host, or nil if
// the credential shares the budget of the host. It reports whether the credential
// is known.
func (t *tenants) account(host string, credential uint64) (a *account, known bool) {
	c := t.clients.Get(host)
	switch {
	case c.first.Load() == credential || c.first.CompareAndSwap(0, credential):
		return nil, true
	case c.accounts.Load() > 0:
		if a, known = t.accounts.Find(accountKey(host, credential)); known {
			return t.named(a, c), true
		}
	}
	again, lasts := t.remember(c.salt ^ credential)
	if lasts {
		c.several.Store(true)
	}
	if !lasts && (!again || c.accounts.Load() >= earlyAccounts) {
		return nil, false
	}
	if a = t.accounts.Get(accountKey(host, credential)); a.key == registry.Rest {
		return nil, false // there are too many
	}
	return t.named(a, c), true
}

// named returns an account that has a name, and so a claim to its place.
func (t *tenants) named(a *account, c *clients) *account {
	a.naming.Do(func() {
		a.name = strconv.FormatInt(t.count.Add(1)+1, 10)
		a.made = clock.Now()
		c.accounts.Add(1)
	})
	a.taken.Store(true)
	return a
}

// use returns the account of that key, which may be another one by now. It marks
// an account that lasts.
func (t *tenants) use(a *account, c *clients) *account {
	if !a.lasts.Load() && clock.Now().Sub(a.made) >= lasting {
		a.lasts.Store(true)
		c.several.Store(true)
	}
	return t.accounts.Get(a.key)
}

// accountKey returns the key of an account.
func accountKey(host string, credential uint64) string {
	return string(binary.NativeEndian.AppendUint64([]byte(host), credential))
}

// remember stores a hash. It reports whether the hash is known, and whether it
// lasts: whether it came first at least the time lasting ago.
func (t *tenants) remember(hash uint64) (known, lasts bool) {
	s := t.seen.Load()
	if s == nil {
		t.seen.CompareAndSwap(nil, new(seen))
		s = t.seen.Load()
	}
	few, now := &s[hash%uint64(len(s))], uint64(clock.Now().Unix())
	age := func(i int) uint64 { return (now - few[i].Load()) & secondsOfSeen }
	oldest := 0
	for i := range few {
		if (few[i].Load()^hash)&^secondsOfSeen == 0 {
			return true, age(i) >= uint64(lasting/time.Second)
		}
		if age(i) > age(oldest) {
			oldest = i
		}
	}
	few[oldest].Store(hash&^secondsOfSeen | now&secondsOfSeen)
	return false, false
}
