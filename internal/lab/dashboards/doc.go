// Package dashboards holds a dashboard for Grafana and alert rules for Prometheus, over
// the series of backoffmetrics: grafana.json and alerts.yaml. Its tests parse, and run,
// every query in them against what backoffmetrics really exposes.
package dashboards
