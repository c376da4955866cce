// Package pagetest tests the page of backoffmetrics in a real browser. Its
// tests need Chromium: chromium on the PATH.
package pagetest
