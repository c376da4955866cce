//go:build integration

package pagetest

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The pictures of the README are of this run: SCREENSHOTS says where to put
// them.
func TestTheExampleIsShownFromTheFirstErrorToTheLast(t *testing.T) {
	program := filepath.Join(t.TempDir(), "observe")
	build := exec.Command("go", "build", "-C", "../../../examples", "-o", program, "./observe")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.Command(program, "-for", "10m")
	pipe, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	t.Cleanup(func() { _ = run.Process.Kill(); _ = run.Wait() })
	lines := bufio.NewScanner(pipe)
	require.True(t, lines.Scan())
	page := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "page"))
	go func() {
		for lines.Scan() { // or the program would wait
		}
	}()

	b := open(t)
	b.dress(t, 1280, "light")
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(page)))
	b.see(t, `document.getElementById("headline").textContent.includes("orders (GET orders) is ")`)
	b.see(t, `document.getElementById("headline").textContent.startsWith("orders (GET orders) is down: its circuit is open, and ")`)
	b.see(t, `document.querySelector("article .circuit").textContent.startsWith("Its circuit, orders, is open: for ")`)
	b.see(t, `document.querySelector(".legend").textContent.includes("refused by the breaker")`)
	b.see(t, `document.querySelector(".recent").textContent.includes("503 Service Unavailable")`)
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.dress(t, width, scheme)
			require.False(t, ask[bool](t, b, `document.documentElement.scrollWidth > innerWidth`))
			keep(t, b, "example-"+scheme, width)
		}
	}
	b.requireQuiet(t, page)
}
