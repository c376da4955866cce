package main

import (
	"bytes"
	"testing"
)

func TestTheValueArrives(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := "region north, replicas 3, after 3 requests\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}
