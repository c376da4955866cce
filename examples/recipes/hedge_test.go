package recipes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
)

var budget, _ = (&guard.Service{Name: "prices"}).Parts()                 // or of the Service of other calls
var lookups = hedge.Hedge{Name: "price", MaxAttempts: 3, Budget: budget} // one for all calls; with a Delay, nothing is measured

func lookUp(ctx context.Context, url string) (price, error) {
	return hedge.Value(ctx, &lookups, func(ctx context.Context) (price, error) {
		return askPrice(ctx, url) // on two goroutines at once, so it shares no variable
	}, nil)
}

func askPrice(ctx context.Context, url string) (p price, err error) {
	text, err := textOf(ctx, http.DefaultClient, url)
	if err == nil {
		err = json.Unmarshal([]byte(text), &p)
	}
	return p, err
}

// The server answers at once, but for one request that it never answers.
func Example_hedge() {
	const answer = `{"Amount": 3.14}`
	var slow atomic.Bool
	server := faulty.Start(func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		if slow.CompareAndSwap(true, false) {
			<-r.Context().Done()
			return
		}
		faulty.Text(answer)(s, w, r)
	})
	defer server.Close()

	for range 200 { // what it learns the delay from
		must(lookUp(context.Background(), server.URL))
	}
	before := lookups.Stats().Hedges
	slow.Store(true)
	began := time.Now()
	p, err := lookUp(context.Background(), server.URL)

	fmt.Println(p.Amount, err, "within a second:", time.Since(began) < time.Second)
	fmt.Println("a hedge was sent:", lookups.Stats().Hedges > before)
	// Output:
	// 3.14 <nil> within a second: true
	// a hedge was sent: true
}
