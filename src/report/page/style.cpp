#include "report/page/sections.hpp"

namespace shardstream::report::page {

std::string_view style_sheet() {
  return R"(:root{color-scheme:light dark;--paper:#fff;--ink:#1b2530;--soft:#52606d;--line:#d8dee4;
--tint:#f4f7f9;--accent:#0a5a9c;--warn:#8a4300;--warn-tint:#fff5e9}
@media(prefers-color-scheme:dark){:root{--paper:#11171d;--ink:#e4eaf0;--soft:#a4b1bd;--line:#2d3842;
--tint:#19212a;--accent:#7cb9f0;--warn:#f2b872;--warn-tint:#2a2116}
.picture svg,.swatch{filter:brightness(1.2)}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1320px;margin:0 auto;padding:32px 24px 64px}
h1,h2,h3{line-height:1.2;letter-spacing:-.01em;overflow-wrap:anywhere}
h1{font-size:2rem;margin:0}
h2{font-size:1.5rem;margin:56px 0 16px;padding-top:24px;border-top:2px solid var(--ink)}
header+h2,header+section h2{margin-top:20px;padding-top:20px}
h3{font-size:1.125rem;margin:40px 0 12px}h4{font-size:1rem;margin:16px 0 4px}
p{margin:0 0 8px;max-width:76ch}a{color:var(--accent)}
.kicker{color:var(--soft);font-size:.8125rem;letter-spacing:.08em;text-transform:uppercase;margin:0}
.lead{color:var(--soft);margin-top:4px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:0 0 20px;
padding:0;list-style:none}
.tiles li{background:var(--tint);border-radius:8px;padding:12px 16px}
.tiles b{display:block;font-size:1.625rem;font-weight:600;line-height:1.25;
font-variant-numeric:tabular-nums}
.tiles span{display:block;color:var(--soft);font-size:.875rem;line-height:1.35}
dl.short{display:grid;grid-template-columns:minmax(8.5em,max-content) 1fr;gap:6px 24px;margin:0 0 16px}
dl.short dt{color:var(--soft)}
dl.short dd{margin:0;max-width:84ch;overflow-wrap:anywhere}
.alert,.findings{background:var(--warn-tint);border-left:3px solid var(--warn);padding:10px 16px;
margin:16px 0;border-radius:0 6px 6px 0}
.findings b{color:var(--warn)}
.findings ul{margin:4px 0 0;padding-left:18px;overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),1fr));gap:20px}
figure{margin:0;border:1px solid var(--line);border-radius:10px;padding:16px;min-width:0}
.gaps{margin-top:20px}.gaps:empty{display:none}
.gaps figure{border:0;padding:0}.gaps figcaption{font-size:.875rem;color:var(--soft);margin:0 0 4px}
figure.broad,figure:has(details[open]){grid-column:1/-1}
figure td:last-child{min-width:20ch}
figcaption{font-weight:600;line-height:1.3;margin-bottom:8px}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:0 0 6px;padding:0;
font-size:.8125rem;color:var(--soft)}
.legend li{display:flex;align-items:center;gap:6px}
.swatch{width:28px;height:12px;flex:none}
.picture svg{display:block;width:100%;height:auto;color:var(--ink)}
.picture text{fill:var(--ink);font-size:14px;font-family:inherit}
.wide{display:none}
.read,.basis{font-size:.875rem;margin:8px 0 0}
.basis,.missing,.read b{color:var(--soft)}
.read b{font-weight:500}
.missing{background:var(--tint);border-radius:6px;padding:14px 16px;margin:0;font-size:.9375rem;
overflow-wrap:anywhere}
details{margin-top:8px;font-size:.875rem}
summary{cursor:pointer;color:var(--accent)}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums;margin:6px 0}
th,td{text-align:left;padding:5px 20px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
td{max-width:52ch;overflow-wrap:break-word}
th{font-weight:500;color:var(--soft);white-space:nowrap;vertical-align:bottom}
.n{text-align:right;white-space:nowrap}
pre{background:var(--tint);border-radius:6px;padding:12px 14px;overflow-x:auto;font-size:.8125rem;
line-height:1.5;margin:8px 0;white-space:pre-wrap;overflow-wrap:anywhere}
pre,code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}code{font-size:.94em}
pre mark{background:var(--warn-tint);color:var(--warn)}
@media(min-width:900px){.wide{display:block}.narrow{display:none}}
@media(max-width:599px){main{padding:20px 12px 40px}h1{font-size:1.625rem}
figure{border:0;border-top:1px solid var(--line);border-radius:0;padding:16px 0 0}
dl.short{grid-template-columns:1fr;gap:0}dl.short dd{margin-bottom:8px}
.tiles{grid-template-columns:1fr 1fr}.tiles b{font-size:1.375rem}}
@media print{@page{size:A4;margin:14mm}:root{--paper:#fff;--ink:#000;--soft:#444;--line:#bbb;
--tint:#f4f4f4;--accent:#000;--warn:#000;--warn-tint:#f4f4f4}
body{font-size:9.5pt}main{max-width:none;padding:0}h2,h3{break-after:avoid}
h2{margin:24px 0 10px;padding-top:14px}h3{margin:22px 0 8px}
.figures{display:block}
figure{display:inline-block;width:48.4%;margin:0 1% 14px 0;padding:9px;vertical-align:top;font-size:8.5pt}
.legend,.read,.basis,.missing,.gaps figcaption{font-size:8pt}.missing{padding:8px 10px}
figure,.findings,.tiles,tr,pre,dl.short dd{break-inside:avoid}
.wide,figure.broad .narrow,figure details{display:none}
figure.broad{width:98.4%}figure.broad .wide{display:block}figure.broad .picture text{font-size:16px}
.picture svg,.swatch{filter:none}
details::details-content{content-visibility:visible;height:auto;opacity:1}summary{list-style:none;color:var(--ink)}
.scroll{overflow:visible}table{width:100%;font-size:7.5pt}thead{display:table-header-group}
th,td{padding:3px 8px 3px 0}th,.n{white-space:normal}td:last-child{overflow-wrap:anywhere}
section{break-before:page}section:first-of-type,#terms{break-before:auto}}
)";
}

}  // namespace shardstream::report::page
