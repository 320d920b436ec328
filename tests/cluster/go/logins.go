// What client-go makes of kubeconfig files: which server, as whom, in which namespace, and how it would log in.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
)

func init() {
	applets["logins"] = logins
}

type loginQuestion struct {
	Files     []string `json:"files"`
	Context   string   `json:"context"`
	Namespace string   `json:"namespace"`
}

type loginAnswer struct {
	Server    string `json:"server"`
	User      string `json:"user"`
	Namespace string `json:"namespace"`
	Way       string `json:"way"`
	Plugin    string `json:"plugin"`
	Error     string `json:"error"`
}

// One question as JSON per line of standard input, one answer per line of standard output.
func logins() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for in.More() {
		var question loginQuestion
		if err := in.Decode(&question); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		answer, err := loginOf(question)
		if err != nil {
			answer = loginAnswer{Error: err.Error()}
		}
		out.Encode(answer)
	}
}

func loginOf(question loginQuestion) (answer loginAnswer, err error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: question.Files}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: question.Context}
	overrides.Context.Namespace = question.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return
	}
	if answer.Namespace, _, err = loader.Namespace(); err != nil {
		return
	}
	name := question.Context
	if name == "" {
		name = raw.CurrentContext
	}
	answer.User = raw.Contexts[name].AuthInfo
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return
	}
	answer.Server = strings.TrimRight(url.String(), "/")
	// The transport says whether what the entry holds goes together; no request is sent.
	if _, err = rest.TransportFor(config); err != nil {
		return
	}
	sent, err := config.TransportConfig()
	if err != nil {
		return
	}
	answer.Way, answer.Plugin = wayOf(config, sent)
	return
}

func wayOf(config *rest.Config, sent *transport.Config) (way, plugin string) {
	var ways []string
	if sent.HasCertAuth() {
		ways = append(ways, "client certificate")
	}
	switch {
	case sent.BearerTokenFile != "":
		ways = append(ways, "token file")
	case sent.HasTokenAuth():
		ways = append(ways, "token")
	case sent.HasBasicAuth():
		ways = append(ways, "basic")
	case config.AuthProvider != nil:
		ways = append(ways, config.AuthProvider.Name)
	case config.ExecProvider != nil && len(ways) == 0:
		return "exec plugin", config.ExecProvider.Command
	}
	if len(ways) == 0 {
		return "none", ""
	}
	return strings.Join(ways, " and "), ""
}
