package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// numbers is the value of a flag with a list of numbers, separated by commas.
type numbers struct {
	all         []float64 // ascending
	least, most float64
	whole       bool
}

// String implements flag.Value.
func (n *numbers) String() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(n.all), "[]"), " ", ",")
}

// Set implements flag.Value.
func (n *numbers) Set(value string) error {
	n.all = nil
	for part := range strings.SplitSeq(value, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(x >= n.least && x <= n.most) || n.whole && x != math.Trunc(x) {
			return fmt.Errorf("%q is not a number from %v to %v", part, n.least, n.most)
		}
		n.all = append(n.all, x)
	}
	slices.Sort(n.all)
	n.all = slices.Compact(n.all)
	return nil
}
