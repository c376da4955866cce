// Package dashboards tests the dashboard for Grafana and the alert rules for
// Prometheus in contrib/dashboards. Its tests parse every query in them and run
// it against the series that backoffmetrics exposes.
package dashboards
