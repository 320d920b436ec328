// The programs of Kubernetes itself.
package main

import (
	"context"
	"os"
	_ "time/tzdata"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func init() {
	add := func(name string, command func() *cobra.Command) {
		applets[name] = func() { os.Exit(cli.Run(command())) }
	}
	add("kube-apiserver", func() *cobra.Command { return apiserver.NewAPIServerCommand() })
	add("kube-controller-manager", func() *cobra.Command { return controllers.NewControllerManagerCommand() })
	add("kube-scheduler", func() *cobra.Command { return scheduler.NewSchedulerCommand() })
	add("kubelet", func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) })
	applets["kubectl"] = func() {
		logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	}
}
