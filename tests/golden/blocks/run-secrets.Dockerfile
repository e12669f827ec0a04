FROM base AS run
RUN --mount=type=secret,id=API_TOKEN,required=true --mount=type=secret,id=KEY,required=true set -eu; \
    secrets() { \
        export REPROKIT_SECRETS=/run/secrets; names="$*"; since="$(($(date +%s) - 1))"; trap '[ "$?" != 0 ] || kept' EXIT; }; \
    kept() { perl -e ' \
        my ($since, $status, $most, %value) = (shift, 0, 0); $/ = undef; \
        for my $name (@ARGV) { \
            open(my $in, "<:raw", "$ENV{REPROKIT_SECRETS}/$name") or die("reprokit: $name is gone: leave the folder of secrets as it is\n"); \
            ($value{$name} = <$in>) =~ s/\s+\z//; $most = length($value{$name}) if length($value{$name}) > $most \
        } \
        open(my $changed, "-|", "find", "/", "-xdev", "(", "-path", "/tmp/*", "-o", "-path", "/var/tmp/*", ")", "-prune", "-o", "-newerct", "\@$since", "-print0") or die; \
        $/ = "\0"; \
        while (my $path = <$changed>) { \
            chomp($path); my $text = $path . "\0" . (readlink($path) // ""); my $in; my %found; \
            open($in, "<:raw", $path) if -f $path && !-l $path; \
            do { \
                for my $name (keys %value) { $found{$name} = 1 if index($text, $value{$name}) >= 0 } \
                $text = substr($text, -$most) if length($text) > $most \
            } while ($in && read($in, $text, 1048576, length($text))); \
            for my $name (keys %found) { print(STDERR "reprokit: the secret $name is in $path, which the image would keep\n"); $status = 1 } \
        } \
        exit($status)' "$since" $names || exit 1; }; \
    secrets API_TOKEN KEY; \
    mkdir -p /; cd /; \
    bash -euo pipefail -c fetch
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block run: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir -p /product/; cd /; \
    test -e /opt/data || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect /opt/data built "$(test -e /opt/data && echo built)"; cp -a --parents /opt/data /product; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM base AS with-run
COPY --from=run /product/ /
RUN ldconfig
# pitfall build-ok-artifact-missing
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block run: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /; \
    expect /opt/data present "$(test -e /opt/data && echo present)"; \
    expect 'libraries that its products do not find' 0 "$(find /opt/data -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"
