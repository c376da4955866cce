// Package corpus runs the call sites, and writes what each did.
package corpus

import (
	"encoding/json"
	"os"
	"testing"

	"corpus/cenkalti4"
	"corpus/cenkalti5"
	"corpus/cenkalti7"
	"corpus/world"

	// What the sites need when they are migrated.
	_ "github.com/gobackoff/backoff"
)

var sites = map[string]map[string]world.Site{
	"cenkalti4": cenkalti4.Sites,
	"cenkalti5": cenkalti5.Sites,
	"cenkalti7": cenkalti7.Sites,
}

func TestRunTheSites(t *testing.T) {
	outcomes := map[string]world.Outcome{}
	for library, all := range sites {
		for name, site := range all {
			for scenario, c := range world.Scenarios() {
				outcomes[library+"/"+name+"/"+scenario] = world.Run(t, site, c)
			}
		}
	}
	text, err := json.Marshal(outcomes)
	if err == nil {
		err = os.WriteFile(os.Getenv("OUTCOMES"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
