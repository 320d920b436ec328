// What a cluster needs beside Kubernetes: the store, the names of pods, and kwok for nodes that are only pretended.
package main

import (
	"fmt"
	"os"

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

func init() {
	applets["etcd"] = func() { etcdmain.Main(os.Args) }
	applets["coredns"] = coremain.Run
	applets["kwok"] = func() {
		if err := runKwok(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func runKwok() error {
	// Kubernetes' packages have put a --version of their own there, which kwok's clashes with.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true
	global.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(signals.SetupSignalContext(), global)
	ctx, err := kwokconfig.InitFlags(ctx, global)
	if err != nil {
		return err
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(global)
	return command.ExecuteContext(ctx)
}
