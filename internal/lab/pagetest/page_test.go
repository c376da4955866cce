//go:build integration

package pagetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffmetrics/page"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/control/controlhttp"
	"github.com/gobackoff/backoff/guard/endpoint"
)

const (
	hostile = `<img src=x onerror="window.stolen=1"></script><script>window.stolen=2</script>`
	patient = 20 * time.Second // a loaded machine is no failure
)

var errDown = backoff.OfClass(errors.New("down"), backoff.ClassRetryable)

// A site is a program with a page. Its policies, its breaker and its budget are
// under traffic until the test ends.
type site struct {
	metrics backoffmetrics.Metrics
	breaker *backoff.Breaker
	url     string
}

func newSite(t *testing.T, prefix string) *site {
	s := &site{}
	s.breaker = &backoff.Breaker{Name: "payments", Observer: s.metrics.Observe}
	budget := &backoff.RetryBudget{}
	s.metrics.WatchBudget("search", budget)
	s.metrics.WatchBreaker("payments", s.breaker)
	mux := http.NewServeMux()
	mux.Handle(prefix, page.Handler(&s.metrics))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL + prefix
	policy := backoff.Policy{Name: "search", Observer: s.metrics.Observe, Budget: budget, Schedule: backoff.Constant(5 * time.Millisecond)}
	search := toEndpoint{&endpoint.Endpoint{Name: "GET search.example.com"}, policy}
	s.call(t, search, func(n int) error { return failing(n%20 == 0) }) // so that the budget lasts
	s.call(t, backoff.Policy{Name: hostile, Observer: s.metrics.Observe, Schedule: backoff.Constant(time.Millisecond)},
		func(int) error { return errDown })
	return s
}

// toEndpoint names what the calls of a policy are sent to.
type toEndpoint struct {
	to     *endpoint.Endpoint
	policy backoff.Policy
}

func (e toEndpoint) Do(ctx context.Context, op func(context.Context) error) error {
	return e.policy.Do(endpoint.With(ctx, e.to), func(ctx context.Context) error { return e.to.Do(ctx, op) })
}

func failing(is bool) error {
	if is {
		return errDown
	}
	return nil
}

// call makes calls until the test ends.
func (s *site) call(t *testing.T, p backoff.Doer, op func(n int) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	t.Cleanup(func() { cancel(); over.Wait() })
	over.Go(func() {
		for n := 0; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			_ = p.Do(ctx, func(context.Context) error { n++; return op(n) })
		}
	})
}

// A browser is a tab of Chromium that records its requests and its errors.
type browser struct {
	context.Context
	mu       sync.Mutex
	asked    []string
	problems []string
}

// chromium is the process that all tests use.
var chromium context.Context

func TestMain(m *testing.M) {
	os.Exit(runInChromium(m))
}

func runInChromium(m *testing.M) (status int) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need Chromium, as .ci/setup installs it:", err)
		return 1
	}
	profile, err := os.MkdirTemp("", "pagetest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(profile)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(profile), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	chromium, stop = chromedp.NewContext(allocator)
	defer stop()
	if err := chromedp.Do(chromium); err != nil {
		fmt.Fprintln(os.Stderr, "Chromium does not start:", err)
		return 1
	}
	return m.Run()
}

// open opens a tab that shares nothing with those of other tests.
func open(t *testing.T) *browser {
	ctx, stop := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(stop)
	ctx, stop = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(stop)
	b := &browser{Context: ctx}
	require.NoError(t, chromedp.Do(ctx)) // opens it
	require.NoError(t, chromedp.Listen(ctx, b.hear))
	for _, enable := range []func() error{
		func() error { _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); return err },
		func() error { _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); return err },
		func() error { _, err := chromedp.Call(ctx, runtime.Enable, cdp.Empty{}); return err },
	} {
		require.NoError(t, enable())
	}
	return b
}

func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.problems = append(b.problems, "console: "+string(e.Type))
	case *log.EventEntryAdded:
		b.problems = append(b.problems, e.Entry.Text)
	}
}

// requireQuiet checks that the page sent requests to its own server only, and
// that the browser reported no error.
func (b *browser) requireQuiet(t *testing.T, site string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.problems)
	require.NotEmpty(t, b.asked)
	own, err := url.Parse(site)
	require.NoError(t, err)
	for _, asked := range b.asked {
		u, err := url.Parse(asked)
		require.NoError(t, err)
		require.True(t, u.Host == own.Host || u.Scheme == "data", "asked for %s", asked)
	}
}

// see waits until a condition holds in the page.
func (b *browser) see(t *testing.T, condition string) {
	t.Helper()
	_, err := chromedp.Run(b, chromedp.Poll[bool](condition, chromedp.WithPollingInterval(100*time.Millisecond), chromedp.WithPollingTimeout(patient)))
	require.NoError(t, err, "never saw %s", condition)
}

func ask[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return v
}

func (b *browser) visit(t *testing.T, url string) {
	t.Helper()
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(url)))
	b.see(t, `document.querySelectorAll("#operations article").length === 2`)
}

func (b *browser) dress(t *testing.T, width int64, scheme string) {
	t.Helper()
	require.NoError(t, chromedp.Do(b, chromedp.EmulateViewport(width, 800)))
	_, err := chromedp.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(t, err)
}

func TestThePageFollowsTheTraffic(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/debug/backoff/")
	b := open(t)
	b.visit(t, s.url)
	calls := `[...document.querySelectorAll("article")].find(a => a.querySelector(".name").textContent.startsWith("search")).last.calls`
	before := ask[float64](t, b, calls)
	b.see(t, calls+" > "+number(before))
	b.see(t, `parseFloat(document.querySelector('[data-figure="calls"]').textContent) > 0`)
	b.see(t, `document.getElementById("status").textContent.startsWith("Live")`)
	b.see(t, `[...document.querySelectorAll("meter")].some(e => e.value > 0)`)
	b.see(t, `document.querySelectorAll("svg.load rect.first").length > 0`)
	b.see(t, `document.querySelectorAll("svg.load rect.failed").length > 0`)
	b.requireQuiet(t, s.url)
}

func number(f float64) string {
	text, _ := json.Marshal(f)
	return string(text)
}

func TestThePageShowsABreakerOpenAndCloseAgain(t *testing.T) {
	s := newSite(t, "/")
	b := open(t)
	b.visit(t, s.url)
	require.Equal(t, "payments closed since the start", ask[string](t, b, `[...document.querySelectorAll("#breakers li > *")].map(e => e.textContent).join(" ")`))
	s.breaker.Trip()
	b.see(t, `document.querySelector("#breakers b.bad")?.offsetParent != null`)
	b.see(t, `document.querySelector("#breakers .what").textContent.includes("because it was set by hand or by the program; opened 1 time")`)
	b.see(t, `document.getElementById("headline").textContent.includes("The circuit is open for payments: calls are refused.")`)
	b.see(t, `document.title.startsWith("●")`)
	s.breaker.Reset()
	b.see(t, `document.querySelector("#breakers b.good") !== null`)
	b.requireQuiet(t, s.url)
}

func TestAHostileNameIsText(t *testing.T) {
	s := newSite(t, "/")
	s.metrics.WatchBudget(hostile, &backoff.RetryBudget{})
	breaker := &backoff.Breaker{Name: hostile, Observer: s.metrics.Observe}
	breaker.Trip()
	b := open(t)
	b.visit(t, s.url)
	require.NoError(t, chromedp.Do(b, chromedp.Sleep(2500*time.Millisecond))) // one more poll
	quoted, err := json.Marshal(hostile)
	require.NoError(t, err)
	b.see(t, `[...document.querySelectorAll(".name")].some(e => e.textContent === `+string(quoted)+`)`)
	require.True(t, ask[bool](t, b, `document.getElementById("breakers").textContent.includes("onerror")`))
	require.True(t, ask[bool](t, b, `document.getElementById("budgets").textContent.includes("onerror")`))
	require.True(t, ask[bool](t, b, `document.title.includes("onerror")`))
	require.False(t, ask[bool](t, b, `"stolen" in window || document.querySelector("img") !== null`))
	b.requireQuiet(t, s.url)
}

// Everything visible lies within the window, at every width and in both colour
// schemes.
func TestNothingIsCutOff(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/")
	s.breaker.Trip()
	b := open(t)
	paper := map[string]string{}
	for _, width := range []int64{390, 360, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.dress(t, width, scheme)
			b.visit(t, s.url)
			b.see(t, `document.querySelectorAll("svg.load rect.failed").length > 0`)
			b.see(t, `document.querySelectorAll("table").length > 2`)
			b.settle(t, cutOff) // a diagnosis comes with the traffic
			require.Empty(t, ask[[]string](t, b, cutOff), "%s at %d", scheme, width)
			require.False(t, ask[bool](t, b, `document.documentElement.scrollWidth > innerWidth`), "%s at %d scrolls sideways", scheme, width)
			paper[scheme] = ask[string](t, b, `getComputedStyle(document.body).backgroundColor`)
			keep(t, b, scheme, width)
		}
	}
	require.NotEqual(t, paper["light"], paper["dark"])
	b.requireQuiet(t, s.url)
}

// settle waits a few seconds for a list to become empty.
func (b *browser) settle(t *testing.T, list string) {
	for end := time.Now().Add(10 * time.Second); len(ask[[]string](t, b, list)) > 0 && time.Now().Before(end); {
		time.Sleep(200 * time.Millisecond)
	}
}

// cutOff lists the elements that are not wholly within the window's width, or
// have no size.
const cutOff = `[..."h1 section:not([hidden])>h2 #status #pause #period #process #breakers>li #budgets>li meter .name .diagnosis .figures>div:not([hidden]) .split .legend>li svg .axis table"
	.split(" ")].flatMap(s => {
		const found = [...document.querySelectorAll(s)];
		if (found.length === 0) return [s + " is missing"];
		return found.filter(e => {
			const r = e.getBoundingClientRect();
			return r.width < 1 || r.height < 1 || r.left < 0 || r.right > innerWidth + 0.5 || e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0;
		}).map(e => s + ": " + JSON.stringify(e.getBoundingClientRect()));
	})`

// keep writes a picture to the directory SCREENSHOTS, if that variable is set.
func keep(t *testing.T, b *browser, scheme string, width int64) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, scheme+"-"+number(float64(width))+".png"), picture, 0o644))
}

// Contrast by WCAG 2.2, 1.4.3: 4.5 for text of this size.
func TestTextCanBeReadInBothDresses(t *testing.T) {
	s := newSite(t, "/")
	s.breaker.Trip()
	b := open(t)
	for _, scheme := range []string{"light", "dark"} {
		b.dress(t, 1280, scheme)
		b.visit(t, s.url)
		require.Empty(t, ask[[]string](t, b, faint), scheme)
	}
}

const faint = `(() => {
	const light = c => { const [r, g, b] = c.match(/[\d.]+/g).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const paper = light(getComputedStyle(document.body).backgroundColor);
	return [...document.querySelectorAll("p, h1, h2, b, span, dt, dd, small, button, a")].filter(e => e.offsetParent && e.textContent.trim()).flatMap(e => {
		const ink = light(getComputedStyle(e).color);
		const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
		return contrast < 4.5 ? [e.tagName + "." + e.className + " " + contrast.toFixed(2)] : [];
	});
})()`

func TestThePageCanBePausedFromTheKeyboard(t *testing.T) {
	s := newSite(t, "/")
	b := open(t)
	b.visit(t, s.url)
	require.NoError(t, chromedp.Do(b, chromedp.KeyEvent("\t")))
	require.Equal(t, "pause", ask[string](t, b, `document.activeElement.id`))
	require.NoError(t, chromedp.Do(b, chromedp.KeyEvent("\r")))
	b.see(t, `document.getElementById("status").textContent.startsWith("Paused")`)
	require.Equal(t, "true", ask[string](t, b, `document.getElementById("pause").getAttribute("aria-pressed")`))
	require.NoError(t, chromedp.Do(b, chromedp.Sleep(500*time.Millisecond))) // an answer on its way
	before := ask[float64](t, b, `document.querySelector("article").last.calls`)
	require.NoError(t, chromedp.Do(b, chromedp.Sleep(3*time.Second)))
	require.Equal(t, before, ask[float64](t, b, `document.querySelector("article").last.calls`))
}

func TestThePageSaysWhenItsServerIsGone(t *testing.T) {
	var metrics backoffmetrics.Metrics
	server := httptest.NewServer(page.Handler(&metrics))
	defer server.Close()
	b := open(t)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(server.URL+"/")))
	b.see(t, `document.getElementById("empty").offsetParent !== null`)
	require.False(t, ask[bool](t, b, `document.getElementById("status").hasAttribute("role")`), "the time is read aloud")
	server.CloseClientConnections()
	server.Close()
	b.see(t, `document.getElementById("status").textContent.startsWith("No numbers since")`)
	require.Equal(t, "alert", ask[string](t, b, `document.getElementById("status").getAttribute("role")`))
}

// announced is what a screen reader finds, in the order of the page.
func announced(t *testing.T, b *browser) (found []string) {
	t.Helper()
	tree, err := chromedp.Call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(t, err)
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal([]byte(v.Value), &s)
		}
		return s
	}
	for _, n := range tree.Nodes {
		if !n.Ignored {
			found = append(found, text(n.Role)+": "+text(n.Name))
		}
	}
	return found
}

func TestAScreenReaderFindsEverything(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/")
	s.breaker.Force(backoff.ModeForcedOpen)
	b := open(t)
	b.visit(t, s.url)
	b.see(t, `document.querySelectorAll("svg.load rect.failed").length > 0`)
	found := announced(t, b)
	for _, want := range []string{
		"banner: ", "main: ", "contentinfo: ", // landmarks
		"region: Circuit breakers", "region: Retry budgets", "region: Operations",
		"heading: Circuit breakers", "heading: Retry budgets",
		"article: search GET search.example.com", "heading: search GET search.example.com", "link: search GET search.example.com",
		"meter: search: ", "image: Calls: at once ", "image: Calls per second in the last 5 min: at most ",
		"StaticText: The circuit is forced open for payments: ",
		"StaticText: Broken: ", "columnheader: p50", "rowheader: attempts of all callers", "term: ", "definition: ",
	} {
		require.True(t, contains(found, want), "%q is not in\n%s", want, strings.Join(found, "\n"))
	}
	for _, line := range found {
		switch role, name, _ := strings.Cut(line, ": "); role {
		case "image", "meter", "button", "link", "heading", "article", "region", "table":
			require.NotEmpty(t, strings.TrimSpace(name), "%s without a name", role)
		}
	}
}

func contains(found []string, want string) bool {
	for _, line := range found {
		if strings.HasPrefix(strings.Join(strings.Fields(line), " "), strings.TrimSpace(want)) {
			return true
		}
	}
	return false
}

// The numbers of the headline change every two seconds. What is read aloud does
// not.
func TestTheHeadlineIsReadAloudOnlyWhenItChanges(t *testing.T) {
	s := newSite(t, "/")
	b := open(t)
	b.visit(t, s.url)
	b.see(t, `document.getElementById("announcement").textContent.includes("is failing.")`)
	require.False(t, ask[bool](t, b, `document.getElementById("headline").hasAttribute("aria-live")`))
	require.NotContains(t, ask[string](t, b, `document.getElementById("announcement").textContent`), "%")
	s.breaker.Trip()
	b.see(t, `document.getElementById("announcement").textContent.includes("The circuit is open for payments.")`)
}

// From the headline the keyboard leads to the card, and the address of a card
// leads there too.
func TestTheHeadlineLeadsToTheCard(t *testing.T) {
	s := newSite(t, "/")
	b := open(t)
	b.visit(t, s.url)
	b.see(t, `document.querySelector("#headline a") !== null`)
	for range 2 { // the button comes first
		require.NoError(t, chromedp.Do(b, chromedp.KeyEvent("\t")))
	}
	require.True(t, ask[bool](t, b, `document.activeElement.parentNode.id === "headline"`))
	require.NotEqual(t, "none", ask[string](t, b, `getComputedStyle(document.activeElement).outlineStyle`), "the focus is not seen")
	require.NoError(t, chromedp.Do(b, chromedp.KeyEvent("\r")))
	b.see(t, `document.querySelector("article:target.bad") !== null`)

	id := ask[string](t, b, `document.querySelector("article:last-of-type").id`)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate("about:blank")))
	b.dress(t, 390, "light")
	b.visit(t, s.url+"#"+id)
	b.see(t, `scrollY > 200`)
}

// newPanel serves a panel to everybody, so that nothing but the browser's own
// headers tells a form of the page from one of another site.
func newPanel(t *testing.T) (*control.Panel, string) {
	panel := new(control.Panel)
	panel.Policy(backoff.Policy{Name: "search"})
	panel.Policy(backoff.Policy{Name: hostile})
	mux := http.NewServeMux()
	mux.Handle("/debug/control", controlhttp.Handler(panel, func(*http.Request) (string, error) { return "ada", nil }))
	mux.HandleFunc("/favicon.ico", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return panel, server.URL + "/debug/control"
}

func (b *browser) run(t *testing.T, script string) {
	t.Helper()
	_, err := chromedp.Run(b, chromedp.Evaluate[bool](script+"; true"))
	require.NoError(t, err)
}

// arrive waits until a condition holds in a page that takes the place of this
// one.
func (b *browser) arrive(t *testing.T, condition string) {
	t.Helper()
	require.Eventually(t, func() bool {
		holds, err := chromedp.Run(b, chromedp.Evaluate[bool](condition))
		return err == nil && holds
	}, patient, 50*time.Millisecond, "never saw %s", condition)
}

func TestTheFormsOfThePageSetAndClearAnOverride(t *testing.T) {
	panel, url := newPanel(t)
	b := open(t)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(url)))
	b.see(t, `document.body.textContent.includes("Nothing is overridden")`)
	b.run(t, `form = document.forms[0]; form.name.value = "search"; form.to.value = "off"; form.why.value = "drill"; form.requestSubmit()`)
	b.arrive(t, `document.querySelector("section h2")?.textContent === "retries of search: off"`)
	require.Equal(t, "ada", panel.Overrides()[0].Who)
	require.True(t, ask[bool](t, b, `location.pathname === "/debug/control"`))
	b.run(t, `form = document.forms[0]; form.why.value = "over"; form.requestSubmit()`)
	b.arrive(t, `document.body.textContent.includes("Nothing is overridden")`)
	require.Empty(t, panel.Overrides())
	require.False(t, ask[bool](t, b, `"stolen" in window || document.querySelector("img") !== null`))
	b.requireQuiet(t, url)
}

// The page of another site posts the form by itself, in each of the encodings
// that a form can have.
func TestAPageOfAnotherSiteCannotSetAnOverride(t *testing.T) {
	panel, url := newPanel(t)
	b := open(t)
	for _, encoding := range []string{"application/x-www-form-urlencoded", "text/plain", "multipart/form-data"} {
		evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<form method=post enctype=%q action=%q><input name=what value=retries><input name=name value="*"><input name=to value=off><input name=why value=evil></form><script>document.forms[0].submit()</script>`, encoding, url)
		}))
		defer evil.Close()
		for _, from := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
			require.NoError(t, chromedp.Do(b, chromedp.Navigate(from)))
			b.arrive(t, `document.body?.textContent.includes("refused: the request comes from another site")`)
			require.Empty(t, panel.Overrides(), "%s from %s", encoding, from)
		}
	}
}

// The pictures of the README are of this run: SCREENSHOTS says where to put
// them.
func TestTheExampleIsShownFromTheFirstErrorToTheLast(t *testing.T) {
	t.Parallel()
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
	b.see(t, `/at once [1-9].*after retries [1-9].*failed/.test(document.querySelector(".legend").textContent)`)
	require.NotContains(t, ask[string](t, b, `document.querySelector(".legend").textContent`), "refused", "calls wait for the circuit")
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
