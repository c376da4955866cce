package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// With -f alone, or -s without -S, a name that is misspelled ends in silence.
func TestTheCommandsShowWhyTheyAreRefused(t *testing.T) {
	var printed bytes.Buffer
	(&drill{services: []*process{{address: "127.0.0.1:1"}}, token: "secret"}).printAddresses(&printed)
	document, err := os.ReadFile("../../docs/oncall.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{printed.String(), string(document)} {
		if all, loud := strings.Count(text, "do curl "), strings.Count(text, "do curl --fail-with-body -sSu ada:"); all == 0 || loud != all {
			t.Errorf("%d of %d commands show it:\n%s", loud, all, text)
		}
	}
}
