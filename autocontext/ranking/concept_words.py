"""The words of each concept: one concept a line, its name, the words that ask for it, a colon, the words that answer.

A line goes on where the next begins with a space. The words that ask answer as well.
"""

from __future__ import annotations

SPACED = """
time when date year month week day time: yesterday today tomorrow tonight morning evening afternoon night noon
 midnight ago last next monday tuesday wednesday thursday friday saturday sunday january february march april june
 july august september october november december weekend spring summer autumn fall winter week month year day hour
 minute recently soon later earlier decade century anniversary
number many much count number old age long: one two three four five six seven eight nine ten eleven twelve dozen
 twenty thirty forty fifty sixty hundred thousand million billion half double twice once couple several
person who whom whose person people: friend neighbor colleague coworker boss teacher doctor partner guy girl boy man
 woman manager
family family relative relatives parent sibling: mother father sister brother son daughter wife husband aunt uncle
 cousin nephew niece grandmother grandfather grandparent grandson granddaughter twin sibling parent stepmother
 stepfather
child child kid kids son daughter baby student pupil toddler newborn: teenager twin infant
spouse husband wife spouse fiance fiancee partner married marriage wedding: girlfriend boyfriend engaged engagement
 bride groom propose divorce date dating
job job work profession occupation career living employed employer: doctor nurse teacher lawyer engineer programmer
 developer chef cook baker waiter barista plumber electrician carpenter mechanic driver pilot firefighter police
 officer soldier farmer gardener designer artist writer journalist photographer actor actress singer musician dentist
 vet veterinarian scientist researcher professor accountant banker bank manager consultant analyst salesman cashier
 librarian nanny coach trainer counselor therapist psychologist architect freelancer intern startup company office
 hire promotion
animal animal pet creature wildlife: dog cat puppy kitten bird parrot fish goldfish hamster rabbit bunny guinea horse
 pony turtle tortoise snake lizard cow pig goat sheep chicken duck goose bear deer fox wolf squirrel whale dolphin
 shark elephant lion tiger monkey butterfly bee
dog dog puppy breed: retriever labrador poodle beagle terrier bulldog shepherd husky dachshund collie corgi chihuahua
 spaniel pug doodle goldendoodle
cat cat kitten: siamese persian tabby
sport sport exercise workout fitness activity athletic: run jog swim yoga pilates gym hike climb cycle bike soccer
 football basketball baseball volleyball tennis badminton golf hockey ski skiing snowboard surf kayak canoe row dance
 box karate judo marathon race martial gymnastics skate skating cricket rugby
hobby hobby hobbies pastime interest interests activity activities leisure fun enjoy enjoys: paint draw sketch pottery
 ceramics clay knit crochet sew quilt garden read write cook bake photography guitar piano violin chess puzzle hike
 camp fish run swim yoga dance game collect woodwork volunteer journal craft painting reading
destress relax destress unwind calm cope self-care stress: meditate meditation yoga bath walk therapy breathe music
 nap
instrument instrument instruments: guitar piano violin cello drum flute clarinet trumpet saxophone ukulele harp
 keyboard bass banjo
music music song band concert genre musician artist: jazz rock pop classical rap hip-hop country folk metal blues
 indie opera album playlist singer band orchestra
food food eat meal dish cuisine snack recipe dinner lunch breakfast dessert cook: pizza pasta sushi burger taco tamale
 curry soup salad sandwich steak chicken rice noodle bread cake cookie pie chocolate cheese egg bacon fish seafood
 shrimp salmon vegetable fruit apple banana strawberry pancake waffle ice-cream pastry croissant baklava lasagna
 barbecue bbq ramen dumpling kebab falafel hummus stew roast vegan vegetarian
drink drink beverage: coffee tea water juice beer wine cocktail whisky espresso latte soda lemonade smoothie milk
 cocoa champagne
color color colour: red blue green yellow orange purple pink black white brown gray turquoise gold silver violet beige
 teal
language language languages speak: english spanish french german italian portuguese russian chinese mandarin cantonese
 japanese korean arabic hindi turkish dutch polish swedish greek hebrew latin vietnamese thai
country country countries abroad nationality travel trip vacation holiday visit: usa america canada mexico brazil
 argentina england uk britain ireland scotland france germany italy spain portugal switzerland austria sweden norway
 denmark finland poland russia ukraine turkey greece egypt morocco kenya nigeria india china japan korea thailand
 vietnam indonesia philippines australia new-zealand israel lebanon syria iran iraq europe africa asia
city where city town live move travel trip visit: london paris berlin madrid barcelona rome milan vienna amsterdam
 brussels dublin lisbon prague york boston chicago seattle portland denver austin dallas houston miami detroit
 philadelphia francisco angeles washington toronto vancouver montreal tokyo kyoto osaka seoul beijing shanghai
 singapore bangkok delhi mumbai sydney melbourne cairo istanbul dubai
place where place location spot somewhere: park beach lake mountain forest river island museum library cafe restaurant
 bar hotel school university college office hospital church gym pool theater cinema station airport street downtown
 city town village country house home apartment farm garden market mall store shop
travel travel trip vacation holiday journey tour sights sightseeing: flight fly airport hotel passport visa cruise
 roadtrip camping beach resort museum temple pyramid castle monument landmark backpack tent suitcase tourist
vehicle vehicle car transport commute drive: car truck van bus train bike bicycle motorcycle scooter tesla toyota
 honda ford bmw prius jeep boat plane
home home house live residence apartment: flat condo rent mortgage lease move roommate landlord neighborhood dorm
health health sick ill illness disease medical condition injury injured hurt pain surgery operation hospital: cancer
 diabetes asthma allergy allergic flu cold fever covid migraine headache back ankle sprain fracture broken broke knee
 hip anxiety depression insomnia doctor clinic therapy pill medicine medication vaccine pregnant recovery
mood feel feeling emotion mood reaction react: happy sad angry nervous anxious excited proud scared afraid thrilled
 grateful relieved lonely disappointed upset stressed exhausted tired overwhelmed worried embarrassed
school school education study studies studied degree class course major university college: graduate graduation
 student teacher professor exam semester bachelor master phd diploma homework grade lecture scholarship math biology
 chemistry physics history psychology kindergarten
book book books read novel author: novel story chapter library author poem biography trilogy fiction fantasy memoir
 kindle
film film movie movies film show series watch: cinema theater netflix actor director comedy drama horror documentary
 episode season anime marvel disney
game game games gaming play: chess poker cards monopoly xbox playstation nintendo switch zelda mario minecraft console
 scrabble catan dungeons rpg esports tournament
art art craft artwork made make creative: paint draw sketch sculpture pottery bowl mug vase canvas watercolor mural
 portrait knit blanket scarf sweater woodwork
clothes clothes clothing wear outfit fashion: shirt dress jeans pants jacket coat sweater hat shoes boots sneakers
 skirt suit scarf socks gloves hoodie
gift gift present receive given: necklace ring bracelet watch book flowers card voucher birthday christmas
money money cost price pay salary budget expensive loan afford finance: dollar dollars euro euros pound yen buck bucks
 cent cheap rent tax debt savings invest bonus discount
celebration party celebrate celebration event festival: birthday wedding anniversary christmas thanksgiving halloween
 easter hanukkah ramadan diwali graduation parade opening reunion
religion religion religious faith spiritual belief believe: church mosque temple synagogue god pray prayer bible quran
 christian catholic muslim jewish buddhist hindu atheist
nature nature outdoors outdoor outside: forest mountain lake river ocean sea beach hike camp tent trail waterfall
 sunset sunrise star meadow desert canyon
plant plant flower garden plants flowers tree: rose tulip sunflower orchid daisy lily oak maple pine tomato herb basil
 seed cactus succulent vegetable
weather weather: rain snow sun sunny storm cloudy wind hot cold heat hurricane freezing
death die death dead pass loss lose grief: died funeral passed grave widow memory
residence born birthplace hometown grew origin originally: native immigrant raised childhood
pl programming language: python java javascript typescript rust golang c++ c# ruby php kotlin swift scala haskell perl
db database sql storage: postgres postgresql mysql sqlite mongodb redis cassandra cockroachdb dynamodb oracle
 snowflake
framework framework library: react vue angular svelte django flask fastapi rails spring next.js express pytorch
 tensorflow langchain
editor editor ide: vim neovim emacs vscode pycharm intellij sublime cursor
os operating system os platform: linux ubuntu debian macos windows android ios fedora arch
cloud cloud deploy deployment hosting infrastructure: aws azure gcp docker kubernetes terraform heroku vercel ansible
 helm
test test testing tests qa: pytest jest unittest mocha junit coverage mock tdd ci
"""
"""Of English, which is written in words."""

CJK = """
time 什么时候 何时 几点 几号 哪天 哪年 日期 时间 多久 いつ 何時 何日 時期 언제: 昨天 今天 明天 后天 前天 上周 下周
 周末 星期 上个月 下个月 去年 今年 明年 年 月 日 早上 晚上 国庆 春节 昨日 今日 明日 先週 来週 毎朝 毎日 毎週 去年 来年
 春 夏 秋 冬 朝 어제 오늘 내일
number 多少 几个 几岁 几次 几 いくつ いくら 何人 何歳 何個 몇: 一 二 三 四 五 六 七 八 九 十 百 千 万 两 岁 元 块
family 家人 家庭 亲人 孩子 子女 父母 家族 両親 兄弟 子供 가족: 父亲 母亲 爸爸 妈妈 儿子 女儿 哥哥 弟弟 姐姐 妹妹 爷爷
 奶奶 妻子 丈夫 息子 娘 妻 夫 父 母 兄 姉 妹 아버지 어머니
spouse 配偶 太太 妻子 老婆 爱人 丈夫 老公 先生 妻 奥さん 夫 旦那: 结婚 婚礼 结婚纪念日
child 孩子 小孩 子女 子供 お子さん 아이: 儿子 女儿 息子 娘
job 职业 工作 岗位 职位 上班 仕事 職業 勤務 직업: 医生 护士 老师 教师 律师 工程师 程序员 设计师 分析师 会计 经理 公司
 司机 警察 记者 作家 厨师 销售 医師 看護師 教師 教えて 薬剤師 弁護士 会社 働いて 의사 교사
animal 宠物 动物 ペット 動物 애완동물: 猫 狗 犬 兔子 鸟 鱼 仓鼠 乌龟 うさぎ 鳥 고양이 강아지
sport 运动 锻炼 健身 体育 运動 スポーツ 部活 운동: 跑步 游泳 篮球 足球 羽毛球 乒乓球 网球 瑜伽 登山 骑行 马拉松
 サッカー 野球 テニス 水泳 ジョギング 自転車
hobby 爱好 兴趣 业余 喜欢做 趣味 취미: 摄影 画画 书法 钓鱼 下棋 园艺 旅游 旅行 收藏 看书 唱歌 写真 釣り 茶道 将棋 読書
instrument 乐器 楽器 악기: 吉他 钢琴 小提琴 二胡 古筝 ギター ピアノ バイオリン
music 音乐 歌曲 歌手 音楽 음악: 专辑 乐队 唱片 演唱会 レコード
food 吃 食物 美食 菜 饮食 点菜 食べ 食事 料理 음식: 米饭 面条 火锅 蔬菜 水果 牛肉 猪肉 鸡 海鲜 辣 甜 香菜 花生 蛋糕
 寿司 ラーメン 辛い 甘い
drink 喝 饮料 饮品 飲み 飲む 음료: 茶 咖啡 酒 牛奶 果汁 コーヒー 紅茶 緑茶 ビール
country 国家 哪国 出国 国 나라: 中国 日本 韩国 美国 英国 法国 德国 俄罗斯 加拿大 泰国 ドイツ フランス アメリカ 留学
city 城市 哪里 老家 住 家乡 籍贯 都市 どこ 住んで 실家: 北京 上海 广州 深圳 杭州 南京 成都 重庆 武汉 西安 长沙 苏州
 天津 云南 湖南 市 省 区 大阪 東京 京都 北海道 長野
travel 旅行 旅游 出游 度假 假期 観光 여행: 自驾 飞机 高铁 酒店 景点 机票 护照 山 海
health 身体 健康 生病 疾病 症状 病 怎么样 体調 病気 건강: 高血压 糖尿病 感冒 发烧 失眠 腰痛 过敏 医院 医生 吃药 手术
 治疗 アレルギー 花粉症 膝 入院 薬
school 学校 学历 专业 大学 学习 学业 学校 学部 학교: 毕业 本科 硕士 博士 考试 课程 老师 留学 机械 计算机
book 书 小说 阅读 作家 看书 本 小説 책: 推理 历史书 科幻小说 作者
film 电影 影片 电视剧 映画 영화: 科幻 导演 演员 电影院 《
money 钱 费用 价格 工资 收入 月租 房租 贷款 お金 給料 値段 돈: 元 万 房贷 存款 円
mood 心情 情绪 感受 感觉 気持ち: 开心 高兴 难过 生气 焦虑 紧张 担心 兴奋 失望
gift 礼物 プレゼント 선물: 项链 手表 戒指 鲜花 花束
color 颜色 色 색: 红色 蓝色 绿色 黄色 黑色 白色 粉色 紫色 灰色
"""
"""Of Chinese, Japanese and Korean, found within runs of their characters."""
