package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheHelpOfMakeFitsAScreen(t *testing.T) {
	text, err := os.ReadFile("../../../Makefile")
	require.NoError(t, err)
	targets := regexp.MustCompile(`(?m)^([a-z-]+):.*##\+? (.*)$`).FindAllStringSubmatch(string(text), -1)
	assert.NotEmpty(t, targets)
	assert.LessOrEqual(t, len(targets), 40)
	for _, target := range targets {
		line := fmt.Sprintf("make %-12s %s", target[1], target[2])
		assert.LessOrEqual(t, len(line), 100, line)
	}
}

// The programs true and false stand in for go.
func TestMakeTestEndsWithWhetherAllPassed(t *testing.T) {
	out, err := exec.Command("make", "-s", "-C", "../../..", "--no-print-directory", "test", "GO=true").Output()
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(string(out), "\nmake test: all tests passed\n"), "%s", out)

	out, err = exec.Command("make", "-s", "-C", "../../..", "--no-print-directory", "test", "GO=false").Output()
	require.Error(t, err)
	assert.True(t, strings.HasSuffix(string(out), "\nmake test: FAILED, see above\n"), "%s", out)
}
