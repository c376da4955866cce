// Command kubernetes updates an object with client-go. Watch what follows a
// conflict (409) and then a restart of the API server (503): RetryOnConflict
// gives up at the 503, and a policy goes on until the update is made.
//
// Both read the object again in each attempt. The API server is a part of this
// program.
//
//	go run -C examples/clients ./kubernetes
package main

import (
	"context"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/presets"
)

func main() { journal.Main(run) }

// policy has the waits of client-go's retry.DefaultBackoff.
func policy(log *journal.Journal) backoff.Policy {
	p := presets.KubernetesDefault()
	p.Observer = log.Observe
	p.Classify = func(err error) backoff.Class {
		if apierrors.IsConflict(err) || apierrors.IsServiceUnavailable(err) {
			return backoff.ClassRetryable
		}
		return backoff.ClassUnknown
	}
	return p
}

// label is one attempt: it reads the object, and writes it back with a label.
func label(ctx context.Context, maps dynamic.ResourceInterface) error {
	object, err := maps.Get(ctx, "settings", metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.SetLabels(map[string]string{"app": "shop"})
	_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

func run(ctx context.Context, out io.Writer) error {
	log := journal.New(out)
	api := startAPI(log)
	defer api.Close()
	client, err := dynamic.NewForConfigAndClient(&rest.Config{Host: api.URL}, http.DefaultClient)
	if err != nil {
		return err
	}
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")

	log.Say("-- RetryOnConflict")
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { return label(ctx, maps) })
	log.Say("it returned: %v", err)

	log.Say("-- a policy")
	err = policy(log).Do(ctx, func(ctx context.Context) error { return label(ctx, maps) })
	log.Sum()
	return err
}
