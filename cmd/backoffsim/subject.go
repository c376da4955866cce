package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// A subject is a client that is simulated.
type subject struct {
	sim.Client
	parameters string
	judged     bool // has a verdict and must pass the gates
	peer       bool // shown by -peer
}

// peerTexts says what the names of peers mean that do not say it themselves.
var peerTexts = map[string]string{
	"500-5-1": "the retry quota of AWS: 500 tokens; a retry takes 5, and a call that succeeds at once gives 1 back",
}

// caption names the subject in a chart.
func (s subject) caption() chart.Policy { return chart.Policy{Name: s.Name, Parameters: s.parameters} }

// subjects returns the three references, the peers that -peer names, and the
// user's policies. The user's policies are judged, or the default if there are
// none.
func (t *terminal) subjects(policies, peers []string, known []sim.Client) ([]subject, error) {
	candidates, err := t.findAll([]string{"none", "naive", "default"}, policies)
	if err != nil {
		return nil, err
	}
	var all []subject
	for _, c := range candidates {
		all = append(all, subject{Client: c.client(), parameters: c.parameters})
	}
	all[2].judged = len(policies) == 0 || slices.Contains(policies, "default")
	for i := range all {
		all[i].judged = all[i].judged || i > 2 || slices.Contains(policies, all[i].Name)
	}
	chosen, err := pickPeers(peers, known)
	if err != nil {
		return nil, err
	}
	for i, p := range chosen {
		if slices.ContainsFunc(all, func(s subject) bool { return s.Name == p.Name }) {
			p.Name += " (peer)"
		}
		all = slices.Insert(all, 3+i, subject{Client: p, parameters: peerTexts[p.Name], peer: true})
	}
	return all, nil
}

// pickPeers returns the known peers that -peer names.
func pickPeers(wanted []string, known []sim.Client) (chosen []sim.Client, err error) {
	for _, name := range wanted {
		if name == "all" {
			return slices.DeleteFunc(slices.Clone(known), isReference), nil
		}
		i := slices.IndexFunc(known, func(c sim.Client) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no peer %q here, want all or one of: %s", name,
				strings.Join(clientNames(known), "; "))
		}
		chosen = append(chosen, known[i])
	}
	return chosen, nil
}

// isReference reports whether a peer is one of the references, which are always
// shown.
func isReference(c sim.Client) bool {
	return slices.ContainsFunc(sim.References(""), func(r sim.Client) bool { return r.Name == c.Name })
}

func clientNames(clients []sim.Client) (all []string) {
	for _, c := range clients {
		all = append(all, c.Name)
	}
	return all
}

func clientsOf(subjects []subject) (all []sim.Client) {
	for _, s := range subjects {
		all = append(all, s.Client)
	}
	return all
}
