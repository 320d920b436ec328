#!/bin/bash
# The certificates and kubeconfigs of a cluster: one authority, made anew for every cluster. The API server checks the signature of the
# authority for each request: for an RSA key this takes a fourth of the time that it takes for an elliptic key. All other keys are elliptic.
#
# usage: pki.sh FOLDER                                authority, components, service account key
#        pki.sh FOLDER client NAME SUBJECT SERVER [NAMESPACE]   a client certificate and NAME.kubeconfig
set -euo pipefail
cd "$1"
days=3650

certificate() {  # certificate NAME SUBJECT USAGE [ALTERNATIVE NAMES]
  local extra=()
  [ $# -lt 4 ] || extra=(-addext "subjectAltName=$4")
  openssl req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.crt" -subj "$2" \
    -days $days -CA ca.crt -CAkey ca.key -addext "keyUsage=digitalSignature,keyEncipherment" -addext "extendedKeyUsage=$3" "${extra[@]}" 2>/dev/null
}

kubeconfig() {  # kubeconfig NAME SERVER [NAMESPACE]
  (
    umask 077
    cat >"$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters:
- {name: test, cluster: {server: "$2", certificate-authority-data: $(base64 -w0 ca.crt)}}
users:
- {name: $1, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}
contexts:
- {name: test, context: {cluster: test, user: $1, namespace: ${3:-default}}}
current-context: test
YAML
  )
}

if [ "${2-}" = client ]; then
  certificate "$3" "$4" clientAuth
  kubeconfig "$3" "$5" "${6-}"
  exit
fi

printf '[req]\ndistinguished_name = name\n[name]\n' >openssl.cnf
openssl req -x509 -config openssl.cnf -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=mlk-test-authority \
  -days $days -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -addext subjectKeyIdentifier=hash 2>/dev/null
certificate serving /CN=kube-apiserver serverAuth \
  DNS:localhost,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:10.250.0.1,IP:10.96.0.1
certificate front-proxy /CN=front-proxy clientAuth
openssl ecparam -name prime256v1 -genkey -noout -out service-account.key
openssl ec -in service-account.key -pubout -out service-account.pub 2>/dev/null
