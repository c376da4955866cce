package recipes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/control/controlhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

var (
	panel   control.Panel
	saving  = panel.Policy(backoff.Policy{Name: "save"}) // saving.Do in place of the Do of the policy
	pricing = panel.Policy(backoff.Policy{Name: "prices"})
	pricer  = &http.Client{Transport: &backoffhttp.Transport{Control: pricing}}
)

func admin(mux *http.ServeMux) {
	mux.Handle("/debug/control", controlhttp.Handler(&panel, whoAsks))
}

// whoAsks is for the example. A program asks for the password that its other
// pages ask for.
func whoAsks(r *http.Request) (string, error) {
	who, password, _ := r.BasicAuth()
	if password != "correct horse" {
		return "", errors.New("wrong password")
	}
	return who, nil
}

func Example_switch() {
	ctx := context.Background()
	save := func(context.Context) error { return errors.New("down") }
	host := faulty.Start(faulty.Status(http.StatusServiceUnavailable), faulty.Text("3.14"))
	defer host.Close()
	mux := http.NewServeMux()
	admin(mux)
	post := func(fields ...string) {
		form := url.Values{"what": {"retries"}, "name": {"*"}}
		for i := 0; i < len(fields); i += 2 {
			form.Set(fields[i], fields[i+1])
		}
		r := httptest.NewRequest("POST", "http://localhost/debug/control", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("ada", "correct horse")
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		fmt.Println(answer.Code)
	}
	get := func() {
		if resp, err := pricer.Get(host.URL); err == nil {
			fmt.Println(resp.StatusCode, backoffhttp.Check(resp))
			resp.Body.Close()
		}
	}

	post("to", "off", "why", "the database is down")
	fmt.Println(saving.Do(ctx, save))
	get()
	post("do", "clear", "why", "it is up")
	fmt.Println(saving.Do(ctx, save))
	get()
	// Output:
	// 200
	// backoff: save: gave up after 1 attempt; retries are switched off: down
	// 503 backoff: prices: gave up after 1 attempt; retries are switched off: status 503 Service Unavailable
	// 200
	// backoff: save: gave up after 4 attempts: down
	// 200 <nil>
}
